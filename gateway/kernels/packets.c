/* SPDX-License-Identifier: MIT */
#include "packets.h"

#include <string.h>

enum { PUBLISH = 3, MOST_LENGTH_BYTES = 4 };

/* Read a variable byte integer (MQTT 5, section 1.5.5). Returns how many bytes it has, 0 if they are not all there, or MALFORMED. */
static int read_length(size_t *value, const uint8_t *at, size_t bytes) {
  size_t sum = 0;
  for (int i = 0; i < MOST_LENGTH_BYTES; i++) {
    if ((size_t)i >= bytes) return 0;
    sum |= (size_t)(at[i] & 0x7f) << (7 * i);
    if (!(at[i] & 0x80)) {
      *value = sum;
      return i + 1;
    }
  }
  return PEEL_PACKETS_MALFORMED;
}

static int is_topic(const peel_packets_rule *rule, const uint8_t *suffix, size_t suffix_bytes, const uint8_t *topic, size_t bytes) {
  return bytes >= rule->prefix_bytes + suffix_bytes && memcmp(topic, rule->prefix, rule->prefix_bytes) == 0 &&
         memcmp(topic + bytes - suffix_bytes, suffix, suffix_bytes) == 0;
}

/* FNV-1a from a secret start, mixed at the end. */
static uint64_t hash_topic(uint64_t seed, const uint8_t *topic, size_t bytes) {
  uint64_t hash = seed ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ topic[i]) * 0x100000001b3u;
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
  return hash ^ hash >> 33;
}

/* Whether the topic of a status is ahead of its rate; if not, note one more. */
static int is_limited(const peel_packets_rule *rule, const uint8_t *topic, size_t bytes) {
  if (rule->pace_count == 0 || !is_topic(rule, rule->status, rule->status_bytes, topic, bytes)) return 0;
  uint64_t hash = hash_topic(rule->seed, topic, bytes);
  peel_packets_pace *pace = &rule->paces[hash % rule->pace_count];
  uint64_t due = pace->topic == hash && pace->due > rule->now ? pace->due : rule->now;
  if (due - rule->now > rule->slack) return 1;
  *pace = (peel_packets_pace){.topic = hash, .due = due + rule->interval};
  return 0;
}

static uint64_t append(uint8_t *buffer, uint64_t end, const uint8_t *data, size_t bytes) {
  memcpy(buffer + end, data, bytes);
  return end + bytes;
}

static void gather(peel_packets_parts *parts, const peel_packets_rule *rule, const uint8_t *topic, size_t topic_bytes, uint16_t identifier,
                   const uint8_t *payload, size_t payload_bytes) {
  size_t n = parts->reports++;
  size_t kept = topic_bytes < rule->longest_topic ? topic_bytes : rule->longest_topic;
  parts->topic_ends[n] = append(parts->topics, n ? parts->topic_ends[n - 1] : 0, topic, kept);
  parts->payload_ends[n] = append(parts->payloads, n ? parts->payload_ends[n - 1] : 0, payload, payload_bytes);
  parts->identifiers[n] = identifier;
}

/* Gather the body of a PUBLISH if it is a report. Returns 1 if it was, or a status beyond its limit, 0 if it is for others, or a fault. */
static int take_report(peel_packets_parts *parts, const peel_packets_rule *rule, unsigned qos, const uint8_t *body, size_t bytes) {
  if (qos > 1) return qos == 2 ? PEEL_PACKETS_QOS_2 : PEEL_PACKETS_MALFORMED;
  if (bytes < 2) return PEEL_PACKETS_MALFORMED;
  size_t topic_bytes = (size_t)body[0] << 8 | body[1], at = 2 + topic_bytes;
  if (at > bytes) return PEEL_PACKETS_MALFORMED;
  const uint8_t *topic = body + 2;
  if (!is_topic(rule, rule->suffix, rule->suffix_bytes, topic, topic_bytes)) {
    int limited = qos == 0 && is_limited(rule, topic, topic_bytes);
    parts->limited += (size_t)limited;
    return limited;
  }
  uint16_t identifier = 0;
  if (qos) {
    if (bytes - at < 2) return PEEL_PACKETS_MALFORMED;
    identifier = (uint16_t)(body[at] << 8 | body[at + 1]);
    if (identifier == 0) return PEEL_PACKETS_MALFORMED;
    at += 2;
  }
  if (rule->properties) {
    size_t length = 0;
    int read = read_length(&length, body + at, bytes - at);
    if (read <= 0 || length > bytes - at - (size_t)read) return PEEL_PACKETS_MALFORMED;
    at += (size_t)read + length;
  }
  gather(parts, rule, topic, topic_bytes, identifier, body + at, bytes - at);
  return 1;
}

/* Find what it takes to pass over a PUBLISH beyond the limit, as soon as that is there. Returns 0 or a negative code. */
static int pass_over(peel_packets_parts *parts, const peel_packets_rule *rule, const uint8_t *packet, size_t head, size_t length,
                     size_t bytes) {
  unsigned type = packet[0] >> 4, qos = packet[0] >> 1 & 3;
  if (rule->properties || type != PUBLISH || qos > 1) return PEEL_PACKETS_TOO_LONG;
  if (bytes < head + 2) return 0;
  size_t identifier = head + 2 + ((size_t)packet[head] << 8 | packet[head + 1]);
  if (qos && identifier + 2 > head + length) return PEEL_PACKETS_MALFORMED;
  if (qos && identifier + 2 > bytes) return 0;
  parts->passed_bytes = head + length;
  parts->passed_identifier = qos ? (uint16_t)(packet[identifier] << 8 | packet[identifier + 1]) : 0;
  return 0;
}

ptrdiff_t peel_packets_split(peel_packets_parts *parts, const peel_packets_rule *rule, const uint8_t *stream, size_t bytes) {
  size_t at = 0;
  parts->reports = 0;
  parts->rest_bytes = 0;
  parts->limited = 0;
  parts->passed_bytes = 0;
  while (bytes - at >= 2) {
    size_t length = 0;
    int read = read_length(&length, stream + at + 1, bytes - at - 1);
    if (read < 0) return read;
    if (read == 0) break;
    size_t head = 1 + (size_t)read;
    if (length > rule->longest_packet) {
      int fault = pass_over(parts, rule, stream + at, head, length, bytes - at);
      return fault ? fault : (ptrdiff_t)at;
    }
    if (length > bytes - at - head) break;
    const uint8_t *packet = stream + at;
    unsigned type = packet[0] >> 4, qos = packet[0] >> 1 & 3;
    if (type == PUBLISH && parts->reports == rule->most) break;
    int taken = type == PUBLISH ? take_report(parts, rule, qos, packet + head, length) : 0;
    if (taken < 0) return taken;
    if (!taken) parts->rest_bytes = (size_t)append(parts->rest, parts->rest_bytes, packet, head + length);
    at += head + length;
  }
  return (ptrdiff_t)at;
}

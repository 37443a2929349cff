/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of the splitter of MQTT packets: any stream, by any rule, cut anywhere. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

static void *copy_of(const void *data, size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1); /* exactly as long, so that the sanitizer sees every access past its end */
  require(memory != NULL);
  if (bytes) memcpy(memory, data, bytes);
  return memory;
}

typedef struct {
  peel_packets_parts parts;
  uint8_t *stream;
  size_t bytes;
  ptrdiff_t used;
} split;

/* The paces of the rule; each stream begins without any. */
static peel_packets_pace paces[3];

static split split_stream(const peel_packets_rule *rule, const uint8_t *data, size_t bytes) {
  static const uint8_t zeros[8 * 4096];
  size_t most = bytes / PEEL_PACKETS_LEAST;
  require(8 * most <= sizeof zeros && bytes <= sizeof zeros);
  split s = {.stream = copy_of(data, bytes), .bytes = bytes};
  s.parts = (peel_packets_parts){.payloads = copy_of(zeros, bytes),
                                 .payload_ends = copy_of(zeros, 8 * most),
                                 .topics = copy_of(zeros, bytes),
                                 .topic_ends = copy_of(zeros, 8 * most),
                                 .identifiers = copy_of(zeros, 2 * most),
                                 .rest = copy_of(zeros, bytes)};
  s.used = peel_packets_split(&s.parts, rule, s.stream, bytes);
  return s;
}

static size_t end_of(const uint64_t *ends, size_t count) { return count ? (size_t)ends[count - 1] : 0; }

static void check(const split *s, const peel_packets_rule *rule) {
  const peel_packets_parts *parts = &s->parts;
  require(s->used <= (ptrdiff_t)s->bytes && s->used >= PEEL_PACKETS_QOS_2);
  require(parts->reports <= rule->most);
  require(end_of(parts->payload_ends, parts->reports) + parts->rest_bytes <= s->bytes);
  for (size_t i = 0; i < parts->reports; i++) {
    require(parts->topic_ends[i] - end_of(parts->topic_ends, i) <= rule->longest_topic);
    require(parts->payload_ends[i] >= end_of(parts->payload_ends, i));
  }
}

static void release(split *s) {
  peel_packets_parts *parts = &s->parts;
  void *all[] = {parts->payloads, parts->payload_ends, parts->topics, parts->topic_ends, parts->identifiers, parts->rest, s->stream};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

/* The stream cut in two: what was left over of the first part is read again with the second. Together they give what the whole gave. */
static void check_cut(const split *whole, const peel_packets_rule *rule, size_t cut) {
  memset(paces, 0, sizeof paces);
  split first = split_stream(rule, whole->stream, cut);
  check(&first, rule);
  size_t reports = first.parts.reports, rest = first.parts.rest_bytes, limited = first.parts.limited;
  ptrdiff_t used = first.used;
  if (used >= 0) {
    split second = split_stream(rule, whole->stream + used, whole->bytes - (size_t)used);
    check(&second, rule);
    reports += second.parts.reports;
    rest += second.parts.rest_bytes;
    limited += second.parts.limited;
    used = second.used < 0 ? second.used : used + second.used;
    release(&second);
  }
  require(reports == whole->parts.reports && rest == whole->parts.rest_bytes && used == whole->used);
  require(limited == whole->parts.limited);
  release(&first);
}

/* The first bytes choose the rule and where the stream is cut; the rest is the stream. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t topic[] = {'p', '/', '/', 'r'};
  if (size < 4 || size > 4096) return 0;
  uint8_t *prefix = copy_of(topic, data[0] & 2), *suffix = copy_of(topic + 2, data[0] >> 1 & 2);
  peel_packets_rule rule = {.prefix = prefix,
                            .prefix_bytes = data[0] & 2,
                            .suffix = suffix,
                            .suffix_bytes = data[0] >> 1 & 2,
                            .properties = data[0] & 1,
                            .longest_packet = (size_t)data[1] * 4,
                            .longest_topic = data[2] & 15,
                            .most = SIZE_MAX,
                            .status = prefix, /* any bytes do */
                            .status_bytes = data[0] & 2,
                            .paces = paces,
                            .pace_count = data[0] >> 4 & 3,
                            .seed = data[0] >> 6,
                            .now = data[3],
                            .interval = data[1],
                            .slack = data[2]};
  memset(paces, 0, sizeof paces);
  size_t bytes = size - 4;
  split whole = split_stream(&rule, data + 4, bytes);
  check(&whole, &rule);
  check_cut(&whole, &rule, data[3] < bytes ? data[3] : bytes);
  rule.most = data[2] >> 4;
  split some = split_stream(&rule, data + 4, bytes);
  check(&some, &rule);
  release(&some);
  release(&whole);
  free(prefix);
  free(suffix);
  return 0;
}

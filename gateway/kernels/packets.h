/* SPDX-License-Identifier: MIT */
/* Splits a stream of MQTT packets into reports and all the rest, in one pass and without an object per packet.
 *
 * Reports are PUBLISH packets of QoS 0 or 1 under certain topics; their topics, payloads and packet identifiers are gathered. Every other
 * packet goes to the rest, untouched and whole, for an MQTT client to read. In MQTT 3.1.1, where a broker cannot be told of a limit, a
 * PUBLISH beyond it is passed over: it would come with every connection again.
 *
 * Statuses are PUBLISH packets of QoS 0 under certain other topics. Each topic has a rate limit; what exceeds it is dropped here, so that a
 * flood of them costs neither an object nor a call. A PUBLISH of QoS 2 is a fault: a client that never subscribes with it must not get it,
 * and one that takes it has to remember every identifier. */
#ifndef PEEL_PACKETS_H
#define PEEL_PACKETS_H

#include <stddef.h>
#include <stdint.h>

#define PEEL_PACKETS_MALFORMED (-1) /* no MQTT */
#define PEEL_PACKETS_TOO_LONG (-2)  /* a packet beyond the limit, other than a PUBLISH of MQTT 3.1.1 */
#define PEEL_PACKETS_QOS_2 (-3)     /* a PUBLISH of QoS 2 */
#define PEEL_PACKETS_LEAST 4        /* bytes of the smallest report packet: header, length, and the length of an empty topic */

/* When the next status of a topic is due. The rate limit is the generic cell rate algorithm: one number per topic. */
typedef struct {
  uint64_t topic; /* hash */
  uint64_t due;
} peel_packets_pace;

typedef struct {
  const uint8_t *prefix; /* topics of reports begin so */
  size_t prefix_bytes;
  const uint8_t *suffix; /* and end so */
  size_t suffix_bytes;
  int properties;        /* whether a PUBLISH has properties: MQTT 5 */
  size_t longest_packet; /* bytes that may follow a packet's length */
  size_t longest_topic;  /* bytes of a topic that are kept */
  size_t most;           /* reports that are taken at once */
  const uint8_t *status; /* topics of statuses begin as those of reports do, and end so */
  size_t status_bytes;
  peel_packets_pace *paces; /* zeros at first; a topic that falls on another's place takes it */
  size_t pace_count;        /* 0: no limit */
  uint64_t seed;            /* of the hash, unknown to those who choose topics */
  uint64_t now;             /* in any unit, never decreasing */
  uint64_t interval;        /* between two statuses of a topic, in the long run */
  uint64_t slack;           /* how far ahead of that it may be */
} peel_packets_rule;

/* Where the parts go. Of a stream of n bytes the buffers take n bytes each, and the arrays n / PEEL_PACKETS_LEAST entries. */
typedef struct {
  uint8_t *payloads; /* one behind the other */
  uint64_t *payload_ends;
  uint8_t *topics;
  uint64_t *topic_ends;
  uint16_t *identifiers; /* 0 at QoS 0: nothing is to be acknowledged */
  uint8_t *rest;
  size_t reports;
  size_t rest_bytes;
  size_t limited;             /* statuses that were dropped */
  size_t passed_bytes;        /* of a PUBLISH beyond the limit, which begins where the split ends; 0 if all of it fits */
  uint16_t passed_identifier; /* what to acknowledge it by, 0 at QoS 0 */
} peel_packets_parts;

/* Split whole packets of the stream, up to the report that would be one too many, or to a PUBLISH beyond the limit. Returns how many bytes
 * they are, or a negative code; what was split before a fault stands in parts. What is left over is the beginning of a packet, or begins
 * with a report if there are as many as may be. */
ptrdiff_t peel_packets_split(peel_packets_parts *parts, const peel_packets_rule *rule, const uint8_t *stream, size_t bytes);

#endif

/* SPDX-License-Identifier: MIT */
/* Sequential bets on the reports of devices: the arithmetic of the statistics layer. Why each bet is fair, what it is for and what share
 * of the capital it has stands in peel_gateway/screening/e_process.py; here is how a toss changes a device's state.
 *
 * A state is one flat record per device, of process.bytes bytes, 8-byte aligned, all zero for a device that has said nothing. Its layout
 * follows from the process (peel_e_process_lay_out). No libm, and no contraction of products and sums (-ffp-contract=off): the same tosses
 * in the same order give the same values on every machine with IEEE 754 doubles. Stored states are little-endian
 * (peel_e_process_reverse_bytes). */
#ifndef PEEL_E_PROCESS_H
#define PEEL_E_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#define PEEL_E_PROCESS_FRACTIONS 8      /* shares of the largest admissible stake that each bet is spread over */
#define PEEL_E_PROCESS_UNIT_FRACTIONS 4 /* the same for the bets on one unit: every other one */
#define PEEL_E_PROCESS_WINDOWS 4        /* memories that compete; see capital.h */
#define PEEL_E_PROCESS_SIZES 32         /* at most so many sizes of predicted sets */
#define PEEL_E_PROCESS_HEAVY_HITTERS 16 /* categories on a list of heavy hitters */
#define PEEL_E_PROCESS_AVOIDED 4        /* categories on a list of avoided ones */
#define PEEL_E_PROCESS_BLOCKS 32        /* at most so many blocks */
#define PEEL_E_PROCESS_QUESTIONS 1024   /* at most so many questions with weights */
#define PEEL_E_PROCESS_LIST_SIZES 4     /* at most so many sizes of sets of heavy hitters, and of votes of heavy hitters */

/* What a pooled bet predicts, for whatever unit a report is about. */
enum {
  PEEL_E_PROCESS_PLUS,
  PEEL_E_PROCESS_MINUS,
  PEEL_E_PROCESS_AGREE,    /* with the cohort's sign before the batch */
  PEEL_E_PROCESS_DISAGREE, /* the other one */
  PEEL_E_PROCESS_PAST,     /* what the device has said of this unit most often */
  PEEL_E_PROCESS_AGAINST,  /* the other sign */
  PEEL_E_PROCESS_RECENT,   /* what one of the windows says; four of them */
  PEEL_E_PROCESS_PREDICTIONS = PEEL_E_PROCESS_RECENT + PEEL_E_PROCESS_WINDOWS
};

/* The bets on frequencies. */
enum {
  PEEL_E_PROCESS_OFTEN,  /* what the unit's last reports said most */
  PEEL_E_PROCESS_SELDOM, /* anything but what they said least */
  PEEL_E_PROCESS_FREQUENCIES
};

/* The bets on what a report supports; by list, PEEL_E_PROCESS_WINDOWS of each. */
enum {
  PEEL_E_PROCESS_SUPPORTED,                                                      /* what the last reports supported most */
  PEEL_E_PROCESS_UNSUPPORTED = PEEL_E_PROCESS_SUPPORTED + PEEL_E_PROCESS_WINDOWS /* anything but what they supported least */
};

/* The parts of a device's capital. */
enum {
  PEEL_E_PROCESS_PART_PREDICTIONS,
  PEEL_E_PROCESS_PART_UNIT, /* one unit alone; kept per unit */
  PEEL_E_PROCESS_PART_REPORTS,
  PEEL_E_PROCESS_PART_GAPS,
  PEEL_E_PROCESS_PART_SYMBOLS,
  PEEL_E_PROCESS_PART_HEAVY_HITTERS,
  PEEL_E_PROCESS_PART_FREQUENCIES,
  PEEL_E_PROCESS_PART_LATE, /* a process of its own */
  PEEL_E_PROCESS_PARTS
};

/* What happened. */
enum {
  PEEL_E_PROCESS_FRESH,       /* a report */
  PEEL_E_PROCESS_TARDY,       /* a report whose number had been settled as missing */
  PEEL_E_PROCESS_GAP,         /* a number that was settled as missing */
  PEEL_E_PROCESS_ABSENT,      /* a report without a reading: it came, and says nothing */
  PEEL_E_PROCESS_ABSENT_TARDY /* the same, late */
};

/* Bets on the symbol that a report says about its unit. */
typedef struct {
  uint32_t units;                             /* attributes or hashes; 0: no such bets */
  uint32_t symbols;                           /* what can be said about one, 2 to 128 */
  double most;                                /* no honest report says a given symbol with a larger probability */
  double capital[PEEL_E_PROCESS_PREDICTIONS]; /* of each pooled bet; 0: not made */
  double unit_capital;                        /* of the bets on one unit alone, together; 0: not made */
  size_t offset;
} peel_prediction_bets;

/* Bets that an item is among a predicted set: those that came most often. */
typedef struct {
  uint32_t items;                      /* 0: no such bets */
  uint32_t windows;                    /* how many, beside the whole past */
  uint32_t few;                        /* sizes up to half of the items: for the whole past and for windows */
  uint32_t sizes;                      /* and with those above: for the whole past alone */
  uint32_t size[PEEL_E_PROCESS_SIZES]; /* ascending */
  const uint32_t *weight;              /* of each item; NULL: all alike. Outlives the process */
  double most;                         /* all alike: a set of a items is hit with probability at most most + (a - 1) least */
  double least;                        /* weights: a set of a items that weigh w is hit with probability at most w most + a least */
  double past_capital;                 /* capital of the bets by the whole past, all sizes together */
  double window_capital;               /* and of those by each window */
  size_t offset;
} peel_set_bets;

/* Bets that a report supports one of a few categories, or does not (local hashing). Its unit is the hash. */
typedef struct {
  uint32_t categories; /* 0: no such bets */
  uint32_t symbols;    /* g, a prime of at most 127 */
  uint32_t digits;     /* m: a hash and a category have so many digits to base g */
  uint32_t sizes;
  uint32_t
      size[PEEL_E_PROCESS_LIST_SIZES]; /* the symbol is one that the first heavy hitters hash to; at most PEEL_E_PROCESS_HEAVY_HITTERS */
  uint32_t votes;
  uint32_t vote[PEEL_E_PROCESS_LIST_SIZES]; /* the symbol is the one that most of the first heavy hitters hash to */
  double most;                              /* one of a symbols comes with probability at most most + (a - 1) least */
  double least;                             /* no given symbol comes with a smaller probability */
  double capital;                           /* of each of PEEL_E_PROCESS_WINDOWS lists */
  uint32_t vetoes;
  uint32_t veto[PEEL_E_PROCESS_LIST_SIZES]; /* the symbol is not the one that most of the first avoided categories hash to; at most
                                               PEEL_E_PROCESS_AVOIDED */
  double avoided_capital;                   /* of each of PEEL_E_PROCESS_WINDOWS lists of avoided categories; 0: not made */
  size_t offset;
} peel_heavy_hitter_bets;

/* Bets that a report says what its unit's last reports said most, or not what they said least. */
typedef struct {
  uint32_t units;   /* 0: no such bets */
  uint32_t symbols; /* 2 or more */
  uint32_t full;    /* a symbol's count that is so large halves those of its unit, 2 to 255: how long they remember */
  double most;      /* no honest report says a given symbol with a larger probability, */
  double least;     /* nor with a smaller one */
  double capital[PEEL_E_PROCESS_FREQUENCIES]; /* of each; 0: not made */
  size_t offset;
} peel_frequency_bets;

/* A run of units with one coin, and the bets on what reports say about them. A number assigns a question; each unit of a block is a
 * question (attributes), or all of them are one (categories, hashes). */
typedef struct {
  uint32_t first_unit;
  uint32_t units;
  uint32_t first_question;
  uint32_t questions; /* units, or 1 */
  peel_prediction_bets predictions;
  peel_set_bets symbol_sets; /* which symbols, whatever the unit */
  peel_heavy_hitter_bets heavy_hitters;
  peel_frequency_bets frequencies;
  peel_frequency_bets lasting_frequencies; /* the same with a longer memory */
} peel_block_bets;

/* All bets on the devices of a profile. The capital of reports, gaps and all blocks adds up to at most 1, and so does that of late. */
typedef struct {
  uint32_t blocks;                              /* 1 or more */
  peel_block_bets block[PEEL_E_PROCESS_BLOCKS]; /* units and questions are numbered from 0, block after block */
  peel_set_bets reports;                        /* which questions came */
  peel_set_bets gaps;                           /* which questions did not */
  peel_set_bets late;                           /* which questions came after having been settled as missing */
  double late_share;                            /* of alpha, for late; the rest for the other process */
  double limit;                                 /* exposed from this capital on: 1/alpha and a little */
  size_t bytes;
} peel_e_process;

/* Events of several devices, count of each array; those of one device in the order of judgement. */
typedef struct {
  const uint32_t *row;    /* which state */
  const uint64_t *number; /* of the report, or the one that is missing */
  const uint32_t *unit;   /* of all blocks; of a gap, any unit of its question */
  const uint32_t *symbol; /* 1 plus, 0 minus; or the symbol or category; unused for gaps */
  const int8_t *cohort;   /* sign of the cohort for this unit before the batch, 0 if none */
  const uint8_t *kind;    /* PEEL_E_PROCESS_FRESH, ... */
  size_t count;
} peel_e_process_events;

/* The bet that holds most of a device's capital. */
typedef struct {
  uint32_t part;   /* PEEL_E_PROCESS_PART_... */
  uint32_t bet;    /* a pooled bet; for sets 0 for the whole past, 1 and up for windows; the list of heavy hitters; for frequencies
                    0 for what is said most, 1 for what is said least */
  uint32_t size;   /* of the predicted set */
  uint32_t block;  /* the block of the bet; 0 for reports, gaps and late */
  uint32_t unit;   /* of the bet on one unit, among the units of all blocks */
  uint32_t events; /* how often it was right */
  uint32_t trials; /* out of so many */
  uint64_t since;  /* from this number on */
  double bound;    /* an honest device makes it right with at most this probability, each time */
  double capital;  /* of this bet alone */
} peel_e_process_evidence;

/* Compute where everything is in a state. All of process but the offsets and bytes is set. Returns bytes. */
size_t peel_e_process_lay_out(peel_e_process *process);

/* Play all events on the states, process->bytes apart, each row's at places[row]. crossed[row] is the index of the event that took the
 * row's capital to the limit; it is -1 before and stays -1 otherwise. What comes after that event is not played. */
void peel_e_process_update(int64_t *crossed, uint8_t *states, const uint64_t *places, const peel_e_process *process,
                           const peel_e_process_events *events);

/* Capital after each of the events if it were played alone, states unchanged. scratch has process->bytes. */
void peel_e_process_peek(double *capital, uint8_t *scratch, const uint8_t *states, const peel_e_process *process,
                         const peel_e_process_events *events);

/* The walk of an insider who sees one step ahead: of two events per step play the wanted one, unless the other would leave less capital and
 * the wanted one would take it to the ceiling, or to more than price[i] times that. Once the ceiling has stopped him he plays what leaves
 * less capital, until the wanted one would leave no more than the floor. wanted and other have equal counts, all of the one state. took[i]
 * is 1 where the wanted one was played. Returns the steps walked: less than count if the limit was reached. */
size_t peel_e_process_walk(uint8_t *took, uint8_t *scratch, uint8_t *state, const peel_e_process *process,
                           const peel_e_process_events *wanted, const peel_e_process_events *other, const double *price, double ceiling,
                           double floor);

/* Reverse the bytes of every number in a state: from this machine's order to the other one, or back. */
void peel_e_process_reverse_bytes(uint8_t *state, const peel_e_process *process);

/* Capital of a device, all units counted: that of its richer process, times the process's share of alpha. */
double peel_e_process_capital(const uint8_t *state, const peel_e_process *process);

/* Whether the last event took the device's capital to the limit. That counts one unit alone, where peel_e_process_capital counts them all.
 */
int peel_e_process_over(const uint8_t *state, const peel_e_process *process);

/* The bet that holds most of a device's capital; part is PEEL_E_PROCESS_PARTS if it has said nothing. */
peel_e_process_evidence peel_e_process_explain(const uint8_t *state, const peel_e_process *process);

/* The set that evidence is about, evidence->size items; only for parts that bet on sets. */
void peel_e_process_members(uint32_t *items, const uint8_t *state, const peel_e_process *process, const peel_e_process_evidence *evidence);

#endif

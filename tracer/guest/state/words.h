/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The 64-bit words of /proc/pagelens_state. From its highest bits to its lowest a word says
 *
 *	what	 what it is about, an enum word_kind
 *	order	 of a block that is free or in a per-cpu list
 *	type	 its migrate type, or that of a page block
 *	middle	 the CPU of a per-cpu list; how many frames are in use or no memory; else 0
 *	frame	 the (first) frame
 */
#ifndef PAGELENS_STATE_WORDS_H
#define PAGELENS_STATE_WORDS_H

enum word_kind {
	WORD_FREE = 1, /* a free block */
	WORD_CACHED,   /* a block in a per-cpu list */
	WORD_PAGEBLOCK,
	WORD_MOVABLE, /* frames in use that may migrate */
	WORD_HOLE     /* frames that are no memory */
};

/* The lowest bit of each field. */
enum word_field {
	WORD_MIDDLE_BIT = 32,
	WORD_TYPE_BIT = 44,
	WORD_ORDER_BIT = 52,
	WORD_KIND_BIT = 60
};

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * A block is sorted as one number:
 *
 *	turn:21 | rank by gain, of turn 0: order + 2 | place: 41 - order
 *
 * where place = group * layers + layer. A group is a set of blocks with the same slots, and a layer
 * is one cache size of memory, so blocks of one group are neighbours in the order of places. The
 * block's first frame can be computed from its place. Places fit, because x86-64 has at most 2^40
 * frames. Turns fit unless memory is two million times the cache; later turns count as the last
 * one.
 */
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "order.h"

#define PLACE_BITS(order) (41 - (order))
#define TURN_SHIFT 43
#define LAST_TURN ((1ULL << (64 - TURN_SHIFT)) - 1)
#define RADIX_BITS 7	    /* 512 bytes of stack */
#define RESCHED_EVERY 65536 /* blocks, which take well below a millisecond */

void zs_mark(const struct zs_cache *cache, unsigned long *bitmap, u64 pfn, u64 frames)
{
	while (frames > 0) {
		u64 slot = pfn % cache->slots;
		u64 n = min(frames, cache->slots - slot);
		u64 first = slot & ~(cache->granule - 1);
		u64 end = (slot + n + cache->granule - 1) & ~(cache->granule - 1);

		bitmap_set(bitmap, first, end - first);
		pfn += n;
		frames -= n;
	}
}

/* The gain of the slots in `wanted`, which are among the 64 around `slot`. */
static unsigned int gain_of_word(const struct zs_cache *cache, u64 slot, u64 wanted)
{
	u64 vacant = ~cache->own[slot / 64] & wanted;

	return hweight64(vacant) + hweight64(vacant & ~cache->allocated[slot / 64]);
}

/* Each slot in neither bitmap gains 2, and each slot in `allocated` alone gains 1. */
static unsigned int gain_of_group(const struct zs_cache *cache, unsigned int order, u64 group)
{
	u64 slots = 1ULL << order, first = group << order, slot;
	unsigned int gain = 0;

	if (slots < 64)
		return gain_of_word(cache, first, ((1ULL << slots) - 1) << (first % 64));
	for (slot = first; slot < first + slots; slot += 64)
		gain += gain_of_word(cache, slot, ~0ULL);
	return gain;
}

void zs_sort_keys(u64 *keys, u64 *spare, size_t n)
{
	u32 place[1 << RADIX_BITS], sum;
	u64 differs = 0, *from = keys, *to = spare;
	size_t i;
	unsigned int shift, digit;

	for (i = 1; i < n; i++)
		differs |= keys[i] ^ keys[0];
	for (shift = 0; shift < 64; shift += RADIX_BITS) {
		if (!((differs >> shift) & ((1 << RADIX_BITS) - 1)))
			continue;
		memset(place, 0, sizeof(place));
		for (i = 0; i < n; i++)
			place[(from[i] >> shift) & ((1 << RADIX_BITS) - 1)]++;
		for (digit = 0, sum = 0; digit < 1 << RADIX_BITS; digit++) {
			u32 count = place[digit];

			place[digit] = sum;
			sum += count;
		}
		for (i = 0; i < n; i++) {
			to[place[(from[i] >> shift) & ((1 << RADIX_BITS) - 1)]++] = from[i];
			if (i % RESCHED_EVERY == 0)
				cond_resched();
		}
		swap(from, to);
	}
	if (from != keys)
		memcpy(keys, from, n * sizeof(*keys));
}

void zs_order(const struct zs_cache *cache, unsigned int order, u64 *blocks, u64 *spare, size_t n)
{
	u64 groups = cache->slots >> order, layers = 1, group = 0, turn = 0;
	u64 best = 2ULL << order, rank = 0;
	unsigned int place_bits = PLACE_BITS(order);
	size_t i;

	for (i = 0; i < n; i++)
		layers = max(layers, blocks[i] / cache->slots + 1);
	for (i = 0; i < n; i++)
		blocks[i] = (blocks[i] >> order) % groups * layers + blocks[i] / cache->slots;
	zs_sort_keys(blocks, spare, n);

	/* Compute all gains before any mark, since marks of this list must not change them. */
	for (i = 0; i < n; i++) {
		u64 place = blocks[i];

		if (i > 0 && place / layers == group) {
			turn = min(turn + 1, LAST_TURN);
			rank = 0;
		} else {
			turn = 0;
			group = place / layers;
			rank = best - gain_of_group(cache, order, group);
		}
		blocks[i] = turn << TURN_SHIFT | rank << place_bits | place;
		if (i % RESCHED_EVERY == 0)
			cond_resched();
	}
	zs_sort_keys(blocks, spare, n);

	for (i = 0; i < n; i++) {
		u64 place = blocks[i] & ((1ULL << place_bits) - 1);

		blocks[i] = (place % layers * groups + place / layers) << order;
		zs_mark(cache, cache->own, blocks[i], 1ULL << order);
	}
}

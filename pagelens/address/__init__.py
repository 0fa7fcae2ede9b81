"""Physical addresses: their units, and the hashes that select slices, channels and banks."""

"""Programs that studies run many times: STREAM over its OFFSETs, DGEMM on pages of its own."""

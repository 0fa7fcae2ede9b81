"""Programs that studies run many times: STREAM with many OFFSETs, and DGEMM on many sets of pages."""

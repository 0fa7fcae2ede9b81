# SQLite: insert, index, group
# needs: sqlite3
prepare() {
    cat >work.sql <<'SQL'
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t SELECT i, printf('%08d', (i * 7919) % 20011), i / 3.0 FROM n;
CREATE INDEX tb ON t(b);
SELECT substr(b, 1, 5), count(*), round(sum(c), 3) FROM t GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5;
DELETE FROM t WHERE a % 3 = 0;
VACUUM;
SELECT count(*), total(a) FROM t;
SQL
}
run() { $TRACE sqlite3 work.db <work.sql; }

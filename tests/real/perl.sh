# Perl: count words by regular expressions
# needs: perl
prepare() { seq 1 8000 | awk '{print "w" $1 % 977, "x" $1 % 13, $1 * 3}' >text; }
run() { $TRACE perl -ne '$n{$1}++ while /(\w+)/g; END { print "$_ $n{$_}\n" for (sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n)[0 .. 9] }' text; }

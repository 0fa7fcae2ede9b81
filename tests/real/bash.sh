# a script of bash: pipes, subshells, and many small programs
# needs: bash awk sed
run() {
    cat >script <<'SCRIPT'
#!/bin/bash
trap 'echo end' EXIT
for i in 1 2 3 4 5; do
    (seq $i | awk '{s += $1} END {print s}' | sed 's/^/sum /') || exit 3
done
value=$(echo inner | tr a-z A-Z)
echo "$value" | while read -r word; do echo "read $word"; done
exit 5
SCRIPT
    chmod +x script
    $TRACE ./script
}

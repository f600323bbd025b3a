# Pipelines, command substitution, background jobs, subshells and here-documents, as scripts have them. Run by any shell.
# Each round has a file of its own: what it has written, closed and not read yet, a killed life must not write again.
total=0
round=0
while [ $round -lt 120 ]; do
    round=$((round + 1))
    sum=$(seq 1 $((round * 10)) | sed 's/$/ + 1/' | while read -r a _ b; do echo $((a + b)); done | awk '{ s += $1 } END { print s }')
    (sleep 0.01; echo "background $round") > "background.$round" &
    child=$!
    lines=$(cat <<END | wc -l
one of $round
two of $round
END
)
    wait $child
    status=$?
    read -r line < "background.$round"
    [ "$line" = "background $round" ] || echo "wrong: $line"
    (exit $((round % 7))) || status=$((status + $?))
    total=$((total + sum + lines + status))
    echo "round $round: $sum $lines $status" | tr a-z A-Z
done
trap 'echo leaving with $total' EXIT
for child in 1 2 3; do
    (sleep 0.0$child; exit $child) &
done
wait
echo "total $total"

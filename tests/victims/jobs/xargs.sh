# Many short programs, four at a time; their output comes in any order.
seq 1 3000 | xargs -P 4 -n 1 sh -c 'expr $0 \* $0' | sort -n | tee squares | awk '{ s += $1 } END { print NR, s }'
wc -l < squares

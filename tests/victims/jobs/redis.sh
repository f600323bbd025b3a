# A Redis server and its clients, all of them in one job, over TCP.
port=$((20000 + $$ % 10000))
redis-server --bind 127.0.0.1 --port $port --save '' --appendonly no --logfile "" --daemonize no --set-proc-title no > server.log &
server=$!
until redis-cli -p $port ping > pong 2>&1 && [ "$(cat pong)" = PONG ]; do sleep 0.05; done
for turn in 1 2 3 4 5 6; do
    redis-benchmark -p $port -q -c 8 -n 36000 incr counter > benchmark.log || exit 1
    redis-cli -p $port get counter
done
redis-cli -p $port set poem 'one two three' && redis-cli -p $port append poem ' four' && redis-cli -p $port get poem
redis-cli -p $port shutdown nosave
wait $server
rm -f server.log benchmark.log pong

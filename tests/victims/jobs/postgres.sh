# A PostgreSQL server and its clients, all of them in one job, over a socket. No transfer is lost or made twice, the sums of
# all tables agree, and the indexes and a dump are whole, before and after the server has been stopped.
# No file outside of the saved folder is cut off: a checkpoint does not hold what was in it.
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH
export PGHOST=$PWD/data PGDATABASE=postgres PGUSER=postgres LC_ALL=C
template=$(dirname "$0")/template

ask() { psql -X -A -t -q -c "$1" 2>> client.log; }

# -F: the machine itself does not fail here. Shared huge pages of the system's pool cannot be saved, and root's tests fill it.
# In the folder lies what a killed life would otherwise leave in /dev/shm.
serve() {
    postgres -D data -F -c listen_addresses= -c unix_socket_directories="$PGHOST" -c shared_buffers=8MB \
        -c huge_pages=off -c dynamic_shared_memory_type=mmap >> server.log 2>&1 &
    server=$!
    until [ "$(ask 'select 1')" = 1 ]; do sleep 0.05; done
}

stop() { kill -INT $server && wait $server; }

judge() {
    ask 'select count(*) from pgbench_history'
    ask 'select (select sum(abalance) from pgbench_accounts) = total and (select sum(tbalance) from pgbench_tellers) = total
        and (select sum(bbalance) from pgbench_branches) = total from (select sum(delta) as total from pgbench_history) as it'
    ask "select bool_and(bt_index_check(oid, true) is not null) from pg_class where relkind = 'i' and relam = 403"
    pg_dump > "dump-$1.sql" && grep -c "^COPY" "dump-$1.sql"
}

# Once for all runs, as an installation is there before a job begins.
if [ ! -d "$template" ]; then
    rm -rf "$template.new"
    initdb -D "$template.new" -A trust -U postgres -N --no-locale --wal-segsize=1 > /dev/null || exit 1
    cp -r "$template.new" data
    serve
    pgbench -i -q -s 1 2> /dev/null && ask 'create extension amcheck' || exit 1
    stop
    rm -rf "$template.new"
    mv data "$template"
fi
rm -rf data
cp -r "$template" data && chmod 700 data
serve
for turn in 1 2 3; do
    pgbench -n -c 4 -t 100 >> client.log 2>&1 || { cat client.log; exit 1; }
    ask 'select count(*) from pgbench_history'
done
judge 1
stop
serve
pgbench -n -c 2 -t 100 >> client.log 2>&1 || { cat client.log; exit 1; }
judge 2
stop
echo stopped
rm -rf data dump-*.sql server.log client.log

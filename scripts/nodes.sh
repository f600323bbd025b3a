# Functions with which the demos make simulated nodes (scripts/simulated-nodes), and run Open MPI on them. Source this file
# after show.sh. Everything is in a temporary directory, $place, which is removed at the end and on Ctrl-C.

place='' nodes='' simulated='' launcher=()

# make_place COUNT: makes the directory, which all nodes share, and COUNT nodes: node1, node2, ...
make_place() {
    local top=$PWD
    # The path must be short, since it is part of the paths of sockets.
    place=$(mktemp -d /tmp/standfast-demo.XXXXXX)
    trap leave EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$place/nodes"
    simulated=$top/scripts/simulated-nodes
    coproc nodes { exec "$simulated" hold "$place/nodes" "$1" "$place"; }
    read -r -t 30 <&"${nodes[0]}" || give_up 'no nodes could be made: does this machine allow user namespaces?'
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # The nodes share the processors. Messages go from node to node by TCP.
    launcher=(mpirun.openmpi --bind-to none --mca mpi_yield_when_idle 1 --mca plm_rsh_no_tree_spawn 1
        --mca btl self,tcp --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24)
}

# The nodes, and all that runs on them, end with the process that holds them.
leave() {
    [[ -z ${nodes_PID:-} ]] || kill -KILL "$nodes_PID" 2>/dev/null || true
    close_display
    wait 2>/dev/null || true
    rm -rf "$place"
}

# Runs a command beside the nodes.
beside() { "$simulated" head "$place/nodes" "$@"; }

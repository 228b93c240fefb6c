# shellcheck shell=bash
# The server of a job: a port of its own, health and life watched, its log shown when it dies.

server='' port='' port_lock='' server_log='' silent_since=''

# Ports below the range that Linux gives to outgoing connections, in blocks: the first is the server's, the next are
# for what vLLM opens by itself.
readonly FIRST_PORT=11000 PORTS=20 BLOCKS=1000 PORT_TRIES=50

start_server() {
    local try
    server_log=$logs/server.log
    for ((try = 0; try < PORT_TRIES; try++)); do
        claim_ports "$try" || continue
        export VLLM_PORT=$((port + 1))
        say "the server starts on port $port"
        in_group "$server_log" serve 127.0.0.1 "$port" "$server_log"
        server=$group
        if wait_until_healthy; then
            base_urls "http://127.0.0.1:$port/v1"
            return
        fi
        say "port $port was taken in the meantime"
        release_ports
    done
    leave "$EXIT_PORT" "no free port in $PORT_TRIES tries"
}

# Succeeds when the server is healthy, fails when its port was taken, leaves the job otherwise.
wait_until_healthy() {
    local until=$((SECONDS + SERVER_DEADLINE)) began=$SECONDS
    while :; do
        [ -z "$caught" ] || leave "$EXIT_INTERRUPTED" "stopped by $caught"
        if ! server_alive; then
            port_was_taken && return 1
            server_is_gone "$EXIT_LOADING" "the server died while loading"
        fi
        if [ "$(http_status "127.0.0.1:$port" /health)" = 200 ] && has_models; then
            say "the server is healthy after $((SECONDS - began)) s"
            silent_since=''
            return 0
        fi
        [ "$SECONDS" -lt "$until" ] || server_is_gone "$EXIT_DEADLINE" "the server is not healthy in $SERVER_DEADLINE s"
        nap
    done
}

# Adapters come after the base, which is healthy before.
has_models() {
    local name answer
    [ -n "$SERVER_MODELS" ] || return 0
    answer=$(http "127.0.0.1:$port" /v1/models)
    for name in $SERVER_MODELS; do
        [[ $answer == *"\"$name\""* ]] || return 1
    done
}

server_alive() { alive "$server"; }

# A busy server may miss a question; one that says 5xx, as vLLM does when its engine is dead, or nothing for
# SERVER_SILENCE seconds is given up.
server_answers() {
    case $(http_status "127.0.0.1:$port" /health) in
        200) silent_since='' ;;
        5??) return 1 ;;
        *)
            : "${silent_since:=$SECONDS}"
            [ $((SECONDS - silent_since)) -lt "$SERVER_SILENCE" ]
            ;;
    esac
}

server_is_gone() {
    # When the whole job is stopped, the server may end before the signal is seen here.
    nap
    [ -z "$caught" ] || leave "$EXIT_INTERRUPTED" "stopped by $caught"
    say "$2; the end of its log, $server_log:"
    show_tail "$server_log" 30
    leave "$1" "$2"
}

port_was_taken() {
    tail -n 50 "$server_log" | grep -qiE 'address already in use|cannot listen on|errno 98'
}

# Takes the block of ports for this job: of two jobs on a node only one gets the lock, and what belongs to others and
# answers already is passed over. The lock lasts as long as any process of the job.
claim_ports() {
    local block=$(((${SLURM_JOB_ID:-$$} + $1) % BLOCKS)) lock
    lock=/tmp/automem-ports-$block.lock
    port=$((FIRST_PORT + block * PORTS))
    { exec {port_lock}>>"$lock"; } 2>/dev/null || return 1
    chmod 666 "$lock" 2>/dev/null
    if flock -n "$port_lock" && ! listening "$port"; then
        return 0
    fi
    release_ports
    return 1
}

release_ports() {
    exec {port_lock}>&-
    server=''
}

listening() {
    (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Where the commands find the server.
base_urls() {
    export AUTOMEM_RUN_BASE_URL=$1 AUTOMEM_EVOLVE_BASE_URL=$1 AUTOMEM_TRAIN_BASE_URL=$1
}

find_endpoint() {
    local rest=${ENDPOINT#*://} host
    host=${rest%%/*}
    [[ $host == *:* ]] || host=$host:80
    if [[ $ENDPOINT == http://* ]] && [ -z "$(http_status "$host" "/${rest#*/}/models")" ]; then
        leave "$EXIT_ENDPOINT" "nothing answers at $ENDPOINT"
    fi
    base_urls "$ENDPOINT"
}

# http HOST:PORT PATH: the whole answer, or nothing. Not every node has curl.
http() {
    # shellcheck disable=SC2016
    timeout 10 bash -c 'exec 4<>"/dev/tcp/$1/$2" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$3" "$1" >&4 &&
        cat <&4' - "${1%:*}" "${1##*:}" "$2" 2>/dev/null
}

http_status() {
    local status
    read -r _ status _ < <(http "$@") && echo "$status"
}

# lora_rank FOLDER...: the smallest rank that vLLM makes room for and that holds all adapters.
lora_rank() {
    local folder rank most=1 room
    for folder in "$@"; do
        rank=$(sed -n 's/.*"r": *\([0-9][0-9]*\).*/\1/p' "$folder/adapter_config.json" | head -n 1)
        if [ "${rank:-0}" -gt "$most" ]; then most=$rank; fi
    done
    for room in 1 8 16 32 64 128 256 320 512; do
        if [ "$room" -ge "$most" ]; then echo "$room" && return; fi
    done
    echo "$most"
}

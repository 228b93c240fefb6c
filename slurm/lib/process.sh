# shellcheck shell=bash
# Processes: started in groups of their own, asked whether they live, stopped with all their children.

group=''

# in_group LOG WORD...: starts it in the background, in a process group of its own, whose number is in $group.
in_group() {
    local log=$1
    shift
    set -m
    ("$@") </dev/null >>"$log" 2>&1 3>&- &
    group=$!
    set +m
}

# `kill -0` would see zombies as well; they have no command line.
alive() {
    [ -n "$(tr -d '\0' 2>/dev/null <"/proc/$1/cmdline")" ]
} 2>/dev/null

# Up to a second; less if the process ends or a signal comes.
nap() {
    sleep 1 &
    local sleeping=$!
    wait -n "$1" "$sleeping"
    kill "$sleeping" 2>/dev/null
    wait "$sleeping" 2>/dev/null
}

# stop_group GROUP SECONDS: asked first, then killed.
stop_group() {
    local until=$((SECONDS + $2))
    kill -TERM -- "-$1" 2>/dev/null
    while alive "$1" && [ "$SECONDS" -lt "$until" ]; do sleep 0.1; done
    kill -KILL -- "-$1" 2>/dev/null
    wait "$1" 2>/dev/null
    return 0
}

# Kills what carries the mark of this job and is not this shell: daemons that left their group.
sweep() {
    local file pid
    while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        [ "$pid" = "$$" ] || kill -KILL "$pid" 2>/dev/null
    done < <(grep -lsaz "^JOB_MARK=$JOB_MARK\$" /proc/[0-9]*/environ)
}

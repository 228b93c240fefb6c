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

# become WORD...: the rest of a subshell is this program, so that signals reach it. Where Linux can, it is stopped when
# the shell of the job is killed, which then can clean up no more.
become() {
    if setpriv --pdeathsig TERM true 2>/dev/null; then
        exec setpriv --pdeathsig TERM "$@"
    fi
    exec "$@"
}

# `kill -0` would see zombies as well. No other program is started for it, since it is asked often.
alive() {
    local stat=''
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null
    stat=${stat##*) }
    [[ -n $stat && $stat != [ZX]* ]]
}

# Half a second, without a process of its own. Waiting for one by `wait -n` makes bash 5.2 lose count of its children.
exec {never}<> <(:)
nap() {
    read -rt 0.5 -u "$never"
    return 0
}

# stop_group GROUP SECONDS: asked first, then killed.
stop_group() {
    local until=$((SECONDS + $2))
    kill -TERM -- "-$1" 2>/dev/null
    while alive "$1" && [ "$SECONDS" -lt "$until" ]; do nap; done
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

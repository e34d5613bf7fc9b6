#!/usr/bin/env bash
# What a batch system does, on the cluster of four nodes that 'make demo' starts around
# this script. Ends with an error if anything is not as it should be.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [[ -z ${COSY_DEV_DIR:-} ]]; then
    echo "this script wants a cluster around it: cosy dev --nodes 4 --cores 2 -- $0" >&2
    exit 2
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/cosy-demo-XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$here"/primes.c "$here"/*.job "$work"
cd "$work"

wrong=0

title() { printf '\n--- %s\n' "$*"; }

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# Shows the command where one looks, and gives the job's id to who calls.
exec 3>&1
submit() {
    printf '$ csub %s\n' "$*" >&3
    csub --parsable "$@"
}

# expect WHAT WANTED FOUND
expect() {
    if [[ $2 == "$3" ]]; then
        printf '  as it should be: %s: %s\n' "$1" "$3"
    else
        printf '  WRONG: %s: %s, should be %s\n' "$1" "$3" "$2"
        wrong=1
    fi
}

# How a job ended: its state and exit code, for an array each kind once.
end_of() { chist --no-header --format state,exit_code "$1" | awk '{print $1, $2}' | sort -u; }

title "submit: a C program is compiled, then run as an array, then the results are added up"
compile=$(submit compile.job)
count=$(submit -d "afterok:$compile" count.job)
sum=$(submit -d "afterok:$count" sum.job)

title "submit: a job that will overrun its limit of 2 seconds, and one for when that fails"
overrun=$(submit -J overrun -t 2s -- sleep 60)
rescue=$(submit -J rescue -d "afternotok:$overrun" -t 1 -- echo "cleaning up")

title "submit: a job that wants all four nodes for itself"
# shellcheck disable=SC2016  # the job's shell is to expand it
wide=$(submit -J wide -N 4 --exclusive -t 1 -o wide.out -- sh -c 'echo "$COSY_NODE_COUNT nodes: $COSY_NODES"')
held=$(submit -J held -H -t 1 -- true)

# Not a fixed time: until the array runs.
deadline=$((SECONDS + 20))
until [[ $(cstat --no-header -s running --format name) == *count* ]]; do
    if ((SECONDS > deadline)); then
        echo "the array does not start; is there a C compiler?" >&2
        show chist
        exit 1
    fi
    sleep 0.05
done

title "the queue while they run"
show cstat
show cstat nodes

title "why does the wide job wait?"
show cstat "$wide"

title "refused at once, with the reason"
printf '\n$ csub -N 5 -- true\n'
csub -N 5 -- true 2>&1 && wrong=1

title "a held job is released, and everything is waited for"
show cosy release "$held"
printf '\n$ cosy wait ...\n'
# One of them is meant to fail, so this does.
cosy wait "$compile" "$count" "$sum" "$overrun" "$rescue" "$wide" "$held" || true

title "results"
show cat wide.out
show cat sum.out

title "accounting"
show chist

title "check"
expect "compile" "completed 0" "$(end_of "$compile")"
expect "all 12 tasks of the array" "completed 0" "$(end_of "$count")"
expect "number of tasks that ended" 12 "$(chist --no-header --format ref "$count" | wc -l | tr -d ' ')"
expect "sum" "completed 0" "$(end_of "$sum")"
expect "primes below 1,200,000" 92938 "$(cat sum.out)"
expect "overrun was ended at its limit" "timed_out" "$(end_of "$overrun" | cut -d' ' -f1)"
expect "rescue ran because overrun failed" "completed 0" "$(end_of "$rescue")"
expect "wide ran on all nodes" "4 nodes: n[1-4]" "$(cat wide.out)"
expect "held ran once released" "completed 0" "$(end_of "$held")"
expect "jobs left in the queue" "" "$(cstat --no-header)"

if ((wrong)); then
    echo
    echo "the demo FAILED: see above"
    exit 1
fi
echo
echo "all as it should be, after $SECONDS s"

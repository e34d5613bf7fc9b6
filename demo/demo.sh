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
cp "$here"/primes.c "$here"/*.job "$here"/night.toml "$work"
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

title "what would two whole nodes cost, now or later, and whom would that delay?"
show cresv quote -N 2 --exclusive -t 1 --until now+10m

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

title "a booking: ten minutes of a node, with a command that starts with them"
printf "\n$ cresv book -N 1 -t 10 --name mine --soonest -o booked.out -- sh -c 'echo ...'\n"
# shellcheck disable=SC2016  # the job's shell is to expand it
said=$(cresv book -N 1 -t 10 --name mine --soonest -o booked.out -- sh -c 'echo "ran on $COSY_NODES"')
printf '%s\n' "$said"
booked=$(sed -n 's/^Job \([0-9]*\) starts with it\.$/\1/p' <<<"$said")
show cresv list
cosy wait "$booked" || true
show cat booked.out

title "a workflow with a deadline: planned; then all its slots are booked, or none, and it runs"
show cosy flow plan night.toml --slack 50% --chart
show cosy flow submit night.toml --slack 50% --wait
show cat night.out

title "accounting"
show chist
show chist --cost

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
expect "the booked command" "completed 0" "$(end_of "$booked")"
expect "sum of the workflow" 42 "$(cat night.out)"
expect "jobs left in the queue" "" "$(cstat --no-header)"

if ((wrong)); then
    echo
    echo "the demo FAILED: see above"
    exit 1
fi
echo
echo "all as it should be, after $SECONDS s"
cat <<END

what to try next:
  $(readlink -f "$(command -v cosy)") dev --nodes 4 --as-user
    a shell with a cluster of your own, which is gone when you leave it. In there:
      csub -t 1 -- hostname; cstat; chist
      cresv quote -N 1 -t 1h --svg quote.svg      and look at the picture
      cresv book -N 1 -t 30m --at now+1h; cresv list
      sbatch, squeue, sinfo, scontrol ... as you know them
  docs/user-guide.md has all of this, docs/coming-from-slurm.md what is different there
END

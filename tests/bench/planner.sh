#!/bin/bash
# The planner's benchmark: planner.sh DIR [ROUNDS]. DIR has the built programs: the figures
# of the planner by itself, then whole logs through cosy-sim and through a counting EASY
# scheduler in Python, in turn. The folder with the logs is told by COSY_TRACES.
set -eu -o pipefail

programs=$1
rounds=${2:-5}
here=$(dirname "$0")
logs="KTH-SP2-1996-2.1-cln:100 SDSC-SP2-1998-4.2-cln:128 CTC-SP2-1996-3.1-cln:338 \
  SDSC-BLUE-2000-4.2-cln:1152"

"$programs/examples/figures"
echo

if [[ -z ${COSY_TRACES:-} ]]; then
  echo "skipped: whole logs; COSY_TRACES names no folder with them" >&2
  exit 0
fi
if ! command -v python3 >/dev/null; then
  echo "skipped: whole logs; there is no python3 to compare with" >&2
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%R %U %S' # wall, user and system time of a command, in seconds

# measure NAME COMMAND...: its output in NAME.json, its times in NAME.time
measure() {
  local name=$1
  shift
  { time "$@" >"$work/$name.json" 2>"$work/errors"; } 2>"$work/$name.time" ||
    { cat "$work/errors" >&2; return 1; }
}

for round in $(seq "$rounds"); do
  for log in $logs; do
    name=${log%:*} processors=${log#*:}
    file=$COSY_TRACES/$name.swf.gz
    if [[ ! -e $file ]]; then
      [[ $round != 1 ]] || echo "skipped: $name is not in the folder" >&2
      continue
    fi
    measure "$name=cosy=$round" "$programs/cosy-sim" run --workload "$file" \
      --machine "$processors" --policy easy --lenient --json -
    measure "$name=count=$round" python3 "$here/count_easy.py" "$file" "$processors"
  done
done
python3 "$here/medians.py" "$work"

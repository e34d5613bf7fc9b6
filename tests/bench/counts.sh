#!/bin/bash
# counts.sh FILE [--write] PROGRAM...: the instructions of each piece of work that the programs know, against
# those in FILE: a line for each, millions of instructions and the name. Fails when one has grown by more
# than 5 % and its line still says the old figure; --write writes them all down anew. Figures of another
# compiler are shown and not compared: the first line of FILE says whose they are.
set -eu -o pipefail

file=$1
shift
write=
if [[ $1 == --write ]]; then
  write=$1
  shift
fi

if ! command -v valgrind >/dev/null; then
  echo "valgrind is not there: instructions were not counted" >&2
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count PROGRAM NAME: millions of instructions, with two digits behind the point.
count() {
  if ! valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \
    --toggle-collect='*counts::measured*' "$1" "$2" >"$work/told" 2>"$work/log"; then
    cat "$work/log" >&2
    return 1
  fi
  awk '/Collected *:/ { found = $NF } END { if (found > 0) printf "%.2f\n", found / 1e6; else exit 1 }' "$work/log" ||
    { echo "nothing was counted of '$2': valgrind has not found what is measured" >&2; return 1; }
}

compiler="# $(rustc --version)"
echo "$compiler" >"$work/new"
for program in "$@"; do
  "$program" >"$work/names"
  while read -r name; do
    figure=$(count "$program" "$name")
    printf '%s %s\n' "$figure" "$name" >>"$work/new"
    printf '%12s  %s: %s\n' "$figure" "$name" "$(cat "$work/told")"
  done <"$work/names"
done

if [[ $write == --write ]]; then
  cp "$work/new" "$file"
  exit 0
fi

if [[ $(head -n 1 "$file") != "$compiler" ]]; then
  echo "not compared: $file has figures of another compiler ($(head -n 1 "$file" | cut -c3-))" >&2
  exit 0
fi

awk '
  /^#/ { next }
  { name = $0; sub(/^[^ ]+ /, "", name) }
  FNR == NR { known[name] = $1; next }
  !(name in known) { printf "not written down: %s\n", name; bad = 1; next }
  $1 > known[name] * 1.05 { printf "%s: %s million instructions, %.1f %% more than the %s written down\n", name, $1, 100 * ($1 / known[name] - 1), known[name]; bad = 1 }
  $1 < known[name] * 0.95 { printf "%s: %s million instructions, less than the %s written down: write that down\n", name, $1, known[name] }
  { delete known[name] }
  END { for (name in known) { printf "written down, and no piece of work any more: %s\n", name; bad = 1 } exit bad }
' "$file" "$work/new" || {
  echo "if that is meant, make bench-counts WRITE=--write writes the figures down: commit $file with the change" >&2
  exit 1
}

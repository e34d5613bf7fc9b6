#!/bin/bash
#SBATCH --time=0-00:05
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --output=scratch.out
set -eu
SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/$USER.$SLURM_JOB_ID.XXXXXX")
cleanup() { rm -rf "$SCRATCH"; echo "scratch: cleaned"; }
trap cleanup EXIT
trap 'echo "time is short"; exit 0' USR1
cp "$0" "$SCRATCH/script"
echo "scratch: $(ls "$SCRATCH")"

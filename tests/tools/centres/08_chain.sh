#!/bin/bash
#SBATCH -J chain
#SBATCH -t 5
#SBATCH -o chain.%j.out
# Submits its successor, as long chains of short jobs do.
STEP=${STEP:-1}
echo "chain: step $STEP"
if [ "$STEP" -lt 3 ]; then
    sbatch --dependency=afterok:$SLURM_JOB_ID --export=ALL,STEP=$((STEP + 1)) --parsable "$SLURM_SUBMIT_DIR/08_chain.sh" > next.$STEP
fi

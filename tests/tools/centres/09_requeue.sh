#!/bin/bash
#SBATCH --job-name="requeue me"
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=requeue.out
#SBATCH --time=5
echo "requeue: restarts ${SLURM_RESTART_COUNT:-0}"
if [ "${SLURM_RESTART_COUNT:-0}" -lt 1 ]; then
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60
fi

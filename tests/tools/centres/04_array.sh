#!/bin/bash
#SBATCH --array=1-9:4%2
#SBATCH --output=array_%A_%a.out
#SBATCH --time=5
#SBATCH --requeue
# The line of the table that belongs to this task.
LINE=$(printf 'a\nb\nc\nd\ne\nf\ng\nh\ni\n' | sed -n "${SLURM_ARRAY_TASK_ID}p")
echo "array: $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT from $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX: $LINE"

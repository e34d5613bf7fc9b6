#!/bin/bash

#SBATCH -N 2
#SBATCH -n 4
#SBATCH -t 10
#SBATCH -o mpi-%j.out

cd "$SLURM_SUBMIT_DIR" || exit
echo "mpi: $SLURM_JOB_NUM_NODES nodes, $SLURM_NTASKS tasks, by node $SLURM_TASKS_PER_NODE"
srun -l sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS"' | sort -n

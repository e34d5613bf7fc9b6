#!/bin/bash -l
#SBATCH -J omp
#SBATCH -o ./%x.%j.out
#SBATCH -e ./%x.%j.err
#SBATCH -D ./
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:10:00
#SBATCH --export=ALL
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores
echo "openmp: $OMP_NUM_THREADS threads, $SLURM_CPUS_ON_NODE cpus"
srun --cpu-bind=none sh -c 'echo "step: $SLURM_STEP_ID $SLURM_CPUS_PER_TASK"'

#!/usr/bin/env bash
#SBATCH --account=project_1234
#SBATCH --partition=work
#SBATCH --time=00:05:00
#SBATCH --nodes=1 --ntasks=2
#SBATCH --mem-per-cpu=100M
#SBATCH --hint=nomultithread
#SBATCH --output=modules.out --error=modules.err
##SBATCH --nodes=99
module() { echo "module $*" >&2; }   # what centres have, in place of one
module purge
module load gcc openmpi
ulimit -s unlimited 2>/dev/null || true
echo "modules: $SLURM_JOB_ACCOUNT $SLURM_JOB_PARTITION $SLURM_MEM_PER_CPU"
srun hostname | sort | uniq -c | awk '{print "hosts:", $1}'
exit 3

#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
#SBATCH --output=nodefile.out
# A machine file for programs that want one.
scontrol show hostnames "$SLURM_JOB_NODELIST" > machines.$SLURM_JOB_ID
head_node=$(head -n 1 machines.$SLURM_JOB_ID)
echo "nodefile: $(wc -l < machines.$SLURM_JOB_ID) nodes, head $head_node, here $SLURMD_NODENAME"
srun --nodes=1 --ntasks=1 -w "$head_node" sh -c 'echo "head runs on $SLURMD_NODENAME"'
rm machines.$SLURM_JOB_ID

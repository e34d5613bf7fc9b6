#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=5
#SBATCH --output=pack.out
for i in 1 2 3 4; do
    srun --ntasks=1 --nodes=1 --exclusive --cpus-per-task=1 sh -c "echo pack $i" &
done
wait
echo "pack: all steps ended"

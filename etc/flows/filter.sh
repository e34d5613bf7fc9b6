#!/bin/sh
#COSY --cores-per-task 2 --mem 4G
# The script of a task in speeds.toml.
exec ./filter "$1"

# shellcheck shell=sh
# To be sourced: the clients of the Slurm that tests/slurm/up.sh brings up.
export AUTOMEM_SLURM_ROOT="${AUTOMEM_SLURM_ROOT:-/tmp/automem-slurm}"
export SLURM_CONF="$AUTOMEM_SLURM_ROOT/etc/slurm.conf"
export PATH="$PATH:/usr/sbin"

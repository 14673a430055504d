#!/bin/bash
# All settings of the sweep, sixteen at a time: bash sweep.sh rows.pt out
cd "$(dirname "$0")"
H="heard=('middle','said','gap'),ensemble=4"
N="heard=('middle','told','gap'),ensemble=4"
{
for s in normal logistic; do for st in none said; do
  sc=1.; [ $st = none ] && sc=5.
  echo "start='$st',$H,scale=$sc,shape='$s'"
done; echo "start='told',$N,shape='$s'"; done
B="start='none',$H,scale=5.,shape='logistic'"
for e in "decay=1e-3" "decay=1e-2" "decay=3e-2" "decay=3e-2,rounds=80" "hidden=16" "hidden=64" "plain=1." "plain=.5" "lr=.005" "lr=.02" "linear=False" "width=.5" "private=('shift',)" "rounds=20" "rounds=80"; do echo "$B,$e"; done
B="start='said',$H,shape='logistic'"
for e in "decay=1e-2" "decay=3e-2" "rounds=80,decay=3e-2" "plain=1."; do echo "$B,$e"; done
} | OMP_NUM_THREADS=1 xargs -d '\n' -P 15 -I{} python3 nets.py "$1" "{}" | tee "$2"

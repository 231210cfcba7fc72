package snapshot

// Package portmath computes what the standard library computes differently on different processors: math.Exp and math.Log have code of their own for
// amd64 and arm64, and where products are fused with sums (arm64) the portable code, math.Pow's too, rounds otherwise. A pipeline's results are a function of its
// journal, wherever it is read: here the same argument gives the same bits on every processor.
//
// The algorithms are those of FreeBSD's msun (e_exp.c, e_log.c, Sun Microsystems 1993) and of math.Pow in Go 1.26. Each product that meets a sum is
// converted by float64(), which the language forbids to fuse; a test looks at what the compiler made of it. Errors are below 1 ulp (Exp, Log).
package portmath

package codec

import (
	"math"
	"strconv"
)

// libraryCutsLengths: where an int has 32 bits, the library cuts 64-bit lengths to it before it checks them, and accepts
// items that are not well-formed.
const libraryCutsLengths = strconv.IntSize == 32

// lengthBeyond31Bits finds the first length of a string, array or map that no payload can have. It goes over the heads one
// after the other, needs no structure, and takes any bytes; what is cut short is left to the library.
func lengthBeyond31Bits(src []byte) (at int, found bool) {
	for i := 0; i < len(src); {
		start := i
		major, info := src[i]>>5, src[i]&31
		i++
		arg := uint64(info)
		if info >= 24 && info <= 27 {
			n := 1 << (info - 24)
			if len(src)-i < n {
				return 0, false
			}
			arg = 0
			for _, c := range src[i : i+n] {
				arg = arg<<8 | uint64(c)
			}
			i += n
		}
		if info == indefinite || major < majorBytes || major > majorMap {
			continue
		}
		if arg > math.MaxInt32 {
			return start, true
		}
		if major == majorBytes || major == majorText {
			if arg > uint64(len(src)-i) {
				return 0, false
			}
			i += int(arg)
		}
	}
	return 0, false
}

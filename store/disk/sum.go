package disk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrSum: flash has changed the file.
var ErrSum = errors.New("its checksum is wrong")

// SumZero stands in the place of a file's checksum while that is computed.
const SumZero = "00000000"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumOf is the CRC-32C, in hexadecimal.
func SumOf(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// Summed puts the checksum of a file into it, in the place of the first zeros.
func Summed(b []byte) []byte { return bytes.Replace(b, []byte(SumZero), []byte(SumOf(b)), 1) }

// CheckSum looks at the checksum that a file says it has; "": it says none.
func CheckSum(b []byte, sum string) error {
	if sum != "" && SumOf(bytes.Replace(b, []byte(sum), []byte(SumZero), 1)) != sum {
		return ErrSum
	}
	return nil
}

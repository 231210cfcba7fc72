package boot

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
)

// errSum: flash has changed the file.
var errSum = errors.New("its checksum is wrong")

const sumZero = "00000000"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the CRC-32C, in hexadecimal.
func sumOf(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// summed puts the checksum of a file into it, in the place of the first zeros.
func summed(b []byte) []byte { return bytes.Replace(b, []byte(sumZero), []byte(sumOf(b)), 1) }

// checkSum looks at the checksum that a file says it has; "": it says none.
func checkSum(b []byte, sum string) error {
	if sum != "" && sumOf(bytes.Replace(b, []byte(sum), []byte(sumZero), 1)) != sum {
		return errSum
	}
	return nil
}

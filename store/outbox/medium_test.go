package outbox

import (
	"math/rand/v2"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// medium is the device of a world: an in-memory file system that knows what a power cut may leave.
type medium struct{ mem *disktest.Mem }

func newMedium() medium { return medium{disktest.NewMem()} }

func (m medium) fs() disk.FS { return m.mem }

// crash gives one of the images that a power cut may leave now.
func (m medium) crash(rnd *rand.Rand) medium {
	var images []*disktest.Mem
	c := disktest.Crasher{Seed: rnd.Uint64(), PerCall: 6}
	c.Images(m.mem, 0, func(image *disktest.Mem) { images = append(images, image) })
	return medium{images[rnd.IntN(len(images))]}
}

// clone gives what is durable for certain.
func (m medium) clone() medium {
	var image *disktest.Mem
	c := disktest.Crasher{PerCall: 1}
	c.Images(m.mem, 0, func(i *disktest.Mem) {
		if image == nil {
			image = i
		}
	})
	return medium{image}
}

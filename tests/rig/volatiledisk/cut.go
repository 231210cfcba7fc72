package volatiledisk

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// Mode says what becomes of the requests that are not flushed when the power is cut.
type Mode int

const (
	// Drop: nothing of them survives.
	Drop Mode = iota
	// Keep: all of them survive, as after a cut that comes a moment later than the cache was written.
	Keep
	// Mix: of each, all, nothing, or any of its sectors, in any order.
	Mix
	// Tear: the cache was written in the order of the requests, and the cut came within one: those before are whole, of that one any sectors survive, those behind are gone.
	Tear
)

// Modes are all there are.
var Modes = []Mode{Drop, Keep, Mix, Tear}

func (m Mode) String() string {
	if m < Drop || m > Tear {
		return fmt.Sprintf("mode %d", int(m))
	}
	return [...]string{"drop", "keep", "mix", "tear"}[m]
}

// A Cut is a way to lose power. The same cut of the same requests leaves the same bytes.
type Cut struct {
	Mode Mode
	Seed uint64 // of what Mix and Tear draw
}

func (c Cut) String() string {
	if c.Mode == Mix || c.Mode == Tear {
		return fmt.Sprintf("%v/%d", c.Mode, c.Seed)
	}
	return c.Mode.String()
}

// Image is what the disk would hold if the power were cut now. The disk goes on.
func (d *Disk) Image(c Cut) *Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.image(c)
}

// Cut takes the power away: from now on every request fails with ErrCut. The image is what the disk holds when the power comes back: FromImage.
// A second cut finds what the first has left.
func (d *Disk) Cut(c Cut) *Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	img := d.image(c)
	d.durable, d.pending, d.cut = img.pages, nil, true
	clear(d.fresh)
	return img
}

func (d *Disk) image(c Cut) *Image {
	img := &Image{size: d.size, pages: maps.Clone(d.durable)}
	if d.planted == keepsAll {
		c.Mode = Keep
	}
	if d.planted == imageLosesFlushed {
		for n := range img.pages {
			delete(img.pages, n)
			break
		}
	}
	for _, r := range d.surviving(c) {
		applyTo(img.pages, r)
	}
	return img
}

// surviving are the requests, or parts of them, that reach the medium, in their order.
func (d *Disk) surviving(c Cut) []request {
	draw := rand.New(rand.NewPCG(c.Seed, uint64(c.Mode)))
	switch c.Mode {
	case Keep:
		return d.pending
	case Mix:
		return d.mixed(draw)
	case Tear:
		if len(d.pending) == 0 {
			return nil
		}
		at := draw.IntN(len(d.pending))
		whole := d.pending[:at:at]
		return append(whole, d.torn(d.pending[at], draw.Float64(), draw)...)
	default:
		return nil
	}
}

// mixed draws how much survives in all first: cuts that lose little and cuts that lose most find different faults.
func (d *Disk) mixed(draw *rand.Rand) []request {
	var out []request
	share, torn := draw.Float64(), draw.Float64()/2
	for _, r := range d.pending {
		switch {
		case draw.Float64() < torn:
			out = append(out, d.torn(r, share, draw)...)
		case draw.Float64() < share:
			out = append(out, r)
		}
	}
	return out
}

// tornMost bounds what a torn request of zeros costs: it is torn into that many pieces at most, each of whole sectors.
const tornMost = 4096

// torn are pieces of r, each of which survives with the probability share.
func (d *Disk) torn(r request, share float64, draw *rand.Rand) []request {
	if d.planted == neverTears {
		return []request{r}
	}
	if d.planted == tornSector && r.data != nil {
		return []request{part(r, 0, r.length-SectorBytes/2)}
	}
	piece := int64(SectorBytes)
	for r.length/piece > tornMost {
		piece *= 2
	}
	var out []request
	for from := int64(0); from < r.length; from += piece {
		if draw.Float64() < share {
			out = append(out, part(r, from, min(from+piece, r.length)))
		}
	}
	return out
}

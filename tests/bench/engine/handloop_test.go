package engine_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// bids calls f with the payload of each bid, escaped as it stands in the recording.
func bids(recording []byte, f func(payload []byte)) {
	in := bufio.NewReaderSize(bytes.NewReader(recording), 256<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if !bytes.Contains(line[:min(len(line), 80)], []byte(`"nexmark/bid"`)) {
			continue
		}
		if at := bytes.Index(line, []byte(`"payload":"`)); at >= 0 {
			f(line[at+len(`"payload":"`):])
		}
	}
}

// number is the integer behind a mark.
func number(b []byte, mark string) int64 {
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		return 0
	}
	b = b[at+len(mark):]
	end := 0
	for end < len(b) && (b[end] == '-' || b[end] >= '0' && b[end] <= '9') {
		end++
	}
	n, _ := strconv.ParseInt(string(b[:end]), 10, 64)
	return n
}

// text is the text behind a mark, without escapes.
func text(b []byte, mark string) []byte {
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		return nil
	}
	b = b[at+len(mark):]
	return b[:max(0, bytes.IndexByte(b, '\\'))]
}

func handQ0(recording []byte, to io.Writer) (n uint64) {
	out := bufio.NewWriterSize(to, 64<<10)
	defer out.Flush()
	var line []byte
	bids(recording, func(p []byte) {
		line = strconv.AppendInt(append(line[:0], `{"auction":`...), number(p, `\"auction\":`), 10)
		line = strconv.AppendInt(append(line, `,"bidder":`...), number(p, `\"bidder\":`), 10)
		line = strconv.AppendInt(append(line, `,"price":`...), number(p, `\"price\":`), 10)
		line = append(append(line, `,"channel":"`...), text(p, `\"channel\":\"`)...)
		line = append(append(line, `","url":"`...), text(p, `\"url\":\"`)...)
		line = strconv.AppendInt(append(line, `","ts":`...), number(p, `\"ts\":`), 10)
		out.Write(append(line, "}\n"...))
		n++
	})
	return n
}

func handQ1(recording []byte, to io.Writer) (n uint64) {
	out := bufio.NewWriterSize(to, 64<<10)
	defer out.Flush()
	var line []byte
	bids(recording, func(p []byte) {
		line = strconv.AppendInt(append(line[:0], `{"auction":`...), number(p, `\"auction\":`), 10)
		line = strconv.AppendInt(append(line, `,"bidder":`...), number(p, `\"bidder\":`), 10)
		line = strconv.AppendInt(append(line, `,"euro_thousandths":`...), number(p, `\"price\":`)*908, 10)
		line = strconv.AppendInt(append(line, `,"ts":`...), number(p, `\"ts\":`), 10)
		out.Write(append(line, "}\n"...))
		n++
	})
	return n
}

// handQ5 counts bids by auction in panes of 2 s, five of which make a window, and prints the auctions with the most of each window that is over.
func handQ5(recording []byte, to io.Writer) (n uint64) {
	out := bufio.NewWriterSize(to, 64<<10)
	defer out.Flush()
	const slide, size, patience = 2000, 10000, 4000
	panes := map[int64]map[int64]int64{}
	newest, next := int64(-1<<62), int64(1<<62) // next is the start of the first window that is not printed
	fire := func(start int64) {
		total, most := map[int64]int64{}, int64(0)
		for p := start; p < start+size; p += slide {
			for auction, count := range panes[p] {
				total[auction] += count
				most = max(most, total[auction])
			}
		}
		for _, auction := range slices.Sorted(maps.Keys(total)) {
			if total[auction] == most {
				fmt.Fprintf(out, "{\"start\":%d,\"end\":%d,\"auction\":%d,\"n\":%d}\n", start, start+size, auction, most)
				n++
			}
		}
		delete(panes, start)
	}
	bids(recording, func(p []byte) {
		auction, ts := number(p, `\"auction\":`), number(p, `\"ts\":`)
		pane := ts - ts%slide
		counts := panes[pane]
		if counts == nil {
			counts = map[int64]int64{}
			panes[pane] = counts
			next = min(next, pane-size+slide)
		}
		counts[auction]++
		if ts <= newest {
			return
		}
		newest = ts
		for ; next+size <= newest-patience; next += slide {
			fire(next)
		}
	})
	for ; next <= newest-newest%slide; next += slide {
		fire(next)
	}
	return n
}

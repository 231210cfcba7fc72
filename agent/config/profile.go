package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirstream/weir/boards"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

// The profiles of boards (package boards) are YAML like the config, read by the same reader with a table of their own.

// ParseProfile reads and checks the text of a profile; file is its name in messages. The error is a plan.Problems with everything that is wrong.
func ParseProfile(file string, text []byte) (*boards.Profile, error) {
	var problems plan.Problems
	root := tree(file, text, &problems)
	p := &boards.Profile{}
	if root == nil && len(problems) == 0 {
		root = &node{pos: plan.Pos{File: file, Line: 1, Column: 1}, shape: shapeMapping}
	}
	if root != nil && root.shape != shapeRefused {
		r := &reader{problems: &problems}
		profileObject.section.read(r, root, p, nil)
		checkProfile(r, root, p)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Profiles reads all profiles of this weir, in alphabetical order.
func Profiles() (list []*boards.Profile) {
	for _, id := range boards.IDs() {
		p, err := Profile(id)
		if err != nil {
			panic("BUG: " + err.Error()) // a test reads them all
		}
		list = append(list, p)
	}
	return list
}

// Profile reads the profile of that name.
func Profile(id string) (*boards.Profile, error) {
	file, text := boards.Text(id)
	if text == nil {
		ids := boards.IDs()
		text := fmt.Sprintf("there is no board %s; there are %s", quote(id), strings.Join(ids, ", "))
		if near := suggest.Nearest(id, ids); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		return nil, fmt.Errorf("%s", text)
	}
	return ParseProfile(file, text)
}

// ProfileSchema is the JSON Schema (draft 2020-12) of a profile, indented.
func ProfileSchema() []byte {
	s := profileObject.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/weirstream/weir/schema/board.json"
	s["title"] = "weir board profile"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("BUG: schema: %v", err)) // texts and numbers only
	}
	return append(b, '\n')
}

var (
	// factKind is any text.
	factKind = stringKind{textKind{what: "a text"}}
	// devKind is a name in /dev or /sys.
	devKind = stringKind{textKind{what: "a name without / and spaces", pattern: `^[^/ ]+$`, allowed: "a name without / and spaces", check: checkSysName}}
	// sizeTaken is a size; 0 none.
	sizeTaken = sizeKind{most: math.MaxInt64}
	countKind = intKind{0, math.MaxInt32}
)

func checkSysName(s string) string {
	if s == "." || s == ".." || strings.ContainsAny(s, "/ '\"\\$`\n\x00") {
		return "it is no name of a device"
	}
	return ""
}

func words(list ...string) choiceKind { return choiceKind{words: list} }

// memoryKind is a size or a share of the machine's memory: 12%.
type memoryKind struct{}

func (memoryKind) label() string {
	return "a size such as 112MiB, or a share of the memory such as 12%"
}
func (memoryKind) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[1-9][0-9]?%$|" + SizePattern}
}

func (k memoryKind) readAny(r *reader, n *node, at any) {
	into := at.(*boards.Memory)
	if share, is := strings.CutSuffix(n.text, "%"); is && n.shape == shapeScalar {
		if p, err := strconv.Atoi(share); err == nil && p >= 1 && p <= 99 {
			into.Percent = p
			return
		}
	}
	b, err := ParseSize(n.text)
	if n.shape != shapeScalar || err != nil || b < 1<<20 {
		r.wrong(n, k.label())
		return
	}
	into.Bytes = b
}

var profileObject = &sectionKind{section{what: "a board", list: []*setting{
	member("id", devKind, "Name of the profile, that of its file.", required()),
	member("name", factKind, "Name of the board, for people.", required()),
	member("detect", detectObject, "How the board is known.", required()),
	member("arch", words("arm64", "arm", "amd64"), "Go's name of the processor.", required()),
	member("goarm64", words("v8.0", "v8.2"), "Highest architecture level to build for. The released binaries need v8.0."),
	member("goarm", words("7"), "The same of 32-bit processors."),
	member("cpus", countKind, "Cores."),
	member("ram_mb", listOf[int]{of: countKind}, "Memory in MiB: the least and the most that it is sold with."),
	member("storage", &recordsKind{of: storageObject}, "Devices that state_dir may lie on."),
	member("rtc", rtcObject, "Clock that goes on without power."),
	member("watchdog", watchdogObject, "What resets the board when its kernel hangs."),
	member("leds", boardLEDsObject, "Directories in /sys/class/leds: defaults of led in the config."),
	member("power", powerObject, "What tells that the supply ends."),
	member("thermal_zone", factKind, "Directory in /sys that tells the processor's temperature."),
	member("updater", updaterObject, "How the software is renewed."),
	member("limits", limitsObject, "Limits of the service; GOMEMLIMIT the agent sets itself."),
	member("journal", boardJournalObject, "Defaults of journal in the config."),
	member("checkpoint", boardCheckpointObject, "Defaults of checkpoint in the config."),
	member("flash", boardFlashObject, "What the storage may be asked to bear."),
	member("quirks", listOf[string]{of: factKind}, "What else is good to know, a sentence each."),
	member("tested", words("untested", "community", "lab", "ci-qemu"), "How far weir ran on it.", required()),
	member("sources", &recordsKind{of: sourceOfProfile, least: 1}, "Where all this is from.", required()),
}}}

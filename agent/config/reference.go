package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reference is docs/config.md: every setting with its kind, default and meaning, from the table that reads the file.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, s := range top.section.list {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.key, s.doc)
		if s.children == nil {
			fmt.Fprintf(&b, "\nA value is %s.%s\n", s.label(), defaultText(s))
			continue
		}
		referenceTable(&b, s)
	}
	b.WriteString(referenceTail)
	return b.String()
}

const referenceHead = `# Configuration

The file is YAML. It is read strictly: what is not listed here is refused, with file, line and column. Made from the
table that reads the file (` + "`agent/config`" + `); a test keeps it so. ` + "`weir schema`" + ` prints the same as a JSON Schema, for editors.

- A **duration** is numbers with units: ` + "`250ms`, `5s`, `1m30s`, `1d`" + `. Units: ns, us, ms, s, m (or min), h, d. Without a unit only 0.
- A **size** is a number with a unit: ` + "`64KiB`, `1GiB`" + ` (1024), ` + "`64kB`, `1GB`" + ` (1000). Without a unit: bytes.
- A **name** is made of letters and digits of any script, ` + "`-` and `_`" + `; it begins with a letter, digit or ` + "`_`" + ` and has at most 128 bytes. Names of the
  gateway and of pipelines may hold single dots. Combining marks, spaces, slashes and names that begin with ` + "`$`" + ` are refused. No path is ever made from
  a name, so ` + "`CON` and `0000002`" + ` are fine, on every platform.
- Secrets stand in files of their own (settings that end in ` + "`_file`, and `key`" + `); their content is never printed. ` + "`credential:NAME`" + ` is a file that
  systemd hands over: ` + "`/etc/weir/credentials/NAME`" + `, which root alone need read ([install.md](install.md#secrets)).
- YAML anchors, aliases, merge keys and tags are not supported.
- Flink's names of settings are accepted within a pipeline: [flink-names.md](flink-names.md).
`

const referenceTail = `
## What else is checked

- Every ` + "`from`" + ` names a source, a step, or another output of a step (` + "`per-minute.late`" + ` of a window, ` + "`heat.hot`" + ` of a split). No cycles. Every step leads to a sink.
- Each uid stands once. State is kept under it: a step that is renamed says its old uid in ` + "`was`" + `.
- Expressions are compiled against the fields that are there: the columns of a window, select or alarm before; the declared ` + "`fields`" + ` of
  a source; any name where a source declares none.
- Windows and sorts need event time from every source before them.
- Brokers and HTTP sinks off this device need TLS, or ` + "`security.allow_plaintext`" + `. HTTP sinks on loopback, link-local or private
  addresses need ` + "`security.allow_private`" + `; a host name is judged when it is dialled.
- A postgres sink names the columns of its rows, or they are all known; the table itself is checked when it is opened. Its host needs TLS unless it is on this
  device, or ` + "`security.allow_plaintext`" + `.
- File sinks write below ` + "`security.file_root`" + `, each its own file. file_root and state_dir do not lie within each other.

## What a row holds

- Fields of the payload by path: ` + "`temp`, `motor.rpm`, `values[0].id`" + `. Levels of the topic by the names in ` + "`{…}`" + `; they hide fields of the same name.
- ` + "`$topic`, `$time` (event time, ms), `$received` (arrival, ms), `$qos`, `$retain`, `$source`, `$position`, `$payload`" + ` at sources, until a step with columns of its own.
- A sink writes the columns of the last select, window or alarm before it. Without one it writes the whole document as it came, with the
  levels of the topic added where the document has no such member. What is not an object becomes ` + "`{\"value\": …}`" + `.
- An alarm's columns: the by fields, transition (RAISE or CLEAR), value, time (event time, ms). An absence's: the by fields, transition (missing or
  back), last_seen, time. Steps such as lag and counter add columns to those that come in: [operators.md](operators.md#columns-that-are-added).
`

func defaultText(s *setting) string {
	switch {
	case s.required:
		return " Required."
	case s.fallback != "":
		return " Default: `" + s.fallback + "`."
	}
	return ""
}

// referenceTable writes the settings of a section, and of the sections in it behind.
func referenceTable(b *strings.Builder, s *setting) {
	switch s.many {
	case "names":
		fmt.Fprintf(b, "\n`%s` is a mapping from names to:\n", s.key)
	case "list":
		fmt.Fprintf(b, "\n`%s` is a list, each item with:\n", s.key)
	}
	b.WriteString("\n| setting | value | default | meaning |\n|---|---|---|---|\n")
	for _, c := range s.children {
		fallback := "—"
		switch {
		case c.required:
			fallback = "required"
		case c.fallback != "":
			fallback = "`" + c.fallback + "`"
		}
		value := c.label()
		if c.children != nil {
			value = "see below"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", c.key, cell(value), fallback, cell(c.doc))
	}
	for _, c := range s.children {
		if c.children != nil {
			fmt.Fprintf(b, "\n### %s.%s\n\n%s\n", s.key, c.key, c.doc)
			referenceTable(b, c)
		}
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// FlinkNames is docs/flink-names.md.
func FlinkNames() string {
	var b strings.Builder
	b.WriteString(`# Flink's names

Settings of a pipeline may be written with Flink's option names, flat, at the level of the pipeline. Both names of one setting
at once are refused. Values such as ` + "`EXACTLY_ONCE`, `10 s`, `3min`, `fixeddelay`, `hashmap`, `rocksdb`" + ` are understood.

| Flink | weir | default here |
|---|---|---|
`)
	known := flinkSettings(pipelineObject.section.list)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		to := known[name]
		path := strings.TrimPrefix(to.section+"."+to.key, ".")
		fallback := "—"
		if to.setting.fallback != "" {
			fallback = "`" + to.setting.fallback + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", name, path, fallback)
	}
	b.WriteString("\nNot in this release, and refused by name; what holds instead:\n\n| Flink | instead |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(flinkNotYet)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, flinkNotYet[name])
	}
	b.WriteString(`
What differs, and why:

- ` + "`execution.checkpointing.tolerable-failed-checkpoints`" + `: Flink's default is 0, here -1 (any number): a gateway with a full disk wins nothing by restarting.
- ` + "`execution.checkpointing.num-retained`" + `: Flink's default is 1, here 3: a damaged newest checkpoint must have one to fall back to.
- ` + "`jobmanager.execution.failover-strategy`" + `: Flink's default is region, here full: a part costs memory and flash like a pipeline. Branches that share a source alone are parts of their own.
- ` + "`execution.checkpointing.max-concurrent-checkpoints`" + `: 1 is the only value.
- ` + "`state.backend.type`" + `: hashmap is memory, rocksdb is pebble.

Concepts: key by → ` + "`by`" + `; DataStream union → a step with several inputs; side output of late data → ` + "`STEP.late`" + `; uid → ` + "`uid`" + `;
WatermarkStrategy.forBoundedOutOfOrderness → ` + "`time.out_of_orderness`" + `; withIdleness → ` + "`idle`" + `; allowedLateness → ` + "`window.allowed_lateness`" + `;
TumblingEventTimeWindows.of(size, offset) → ` + "`window: {tumbling, offset}`" + `. More, and eKuiper's: [steps](operators.md#names-elsewhere),
[joins](joins.md#names-elsewhere).
`)
	return b.String()
}

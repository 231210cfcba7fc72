package cases
import ("testing";"fmt";"os/exec")
func TestTmp(t *testing.T){
 for _,st:=range []string{"log","bbolt"} {
 s:=newSite(t, table(st))
 s.startReady()
 for i:=range 400 { s.broker.Publish(fmt.Sprintf("k/%d",i%20),1,false,[]byte(fmt.Sprintf(`{"ts":%d,"v":%d}`,1767225600000+i*100,i))); if i%100==99 { s.settled() } }
 s.agent.Kill()
 o,_:=exec.Command("find",s.dir,"-type","f","-ls").CombinedOutput(); t.Log(string(o))
 o,_=exec.Command("sh","-c","cd "+s.dir+"; grep -c . files/*; find . -name '*.seg*' -o -name '*.log' | head; grep -obUaP 'WSMF' -r state | head -20").CombinedOutput(); t.Log(string(o))
 }
}
func table(store string) string { return `
sources:
  k:
    mqtt: {broker: local, topic: "k/{k}"}
    fields: {ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  table:
    start: earliest
    checkpoint: {interval: 100ms, store: `+store+`}
    steps:
      - {uid: w, from: k, by: [k], window: {tumbling: 10s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: table, from: w, file: {path: table.jsonl}}
`}

// Package ends has every kind of far end that sinks deliver to, each with an endpoint on it, for tests and measurements that go over all of
// them: a server as a process of its own on a free loopback port, or a place in the file system. What an end holds is read by its own means.
package ends

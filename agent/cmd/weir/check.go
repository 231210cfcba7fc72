package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/boards"
	"github.com/weirstream/weir/pipeline/plan"
)

func checkCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "check",
		Aliases: []string{"lint"},
		Short:   "Check the config and tell what each pipeline does and promises; touches nothing",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			machine := boards.Read("/")
			if err := cfg.Settle(machine); err != nil {
				return err
			}
			_, memory := cfg.MemoryLimit(machine, os.Getenv("GOMEMLIMIT"))
			cfg.On.Values = append(cfg.On.Values, memory)
			space, storage := space.Of(cfg), space.StorageOf(cfg)
			if o.output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(checked(cfg, space, storage))
			}
			for _, p := range cfg.Pipelines {
				for _, r := range p.Regions() {
					fmt.Fprint(c.OutOrStdout(), plan.Explain(&r.Spec, r.Graph))
				}
			}
			for _, l := range cfg.Links {
				fmt.Fprintln(c.OutOrStdout(), l)
			}
			if err := printBoard(c.OutOrStdout(), &cfg.On); err != nil {
				return err
			}
			for _, w := range warnings(cfg) {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			if w := space.Warning(); w != "" {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			for _, f := range storage.Findings {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", f)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: ok, %d pipelines, %d warnings\n", cfg.File, len(cfg.Pipelines), len(warnings(cfg)))
			return nil
		},
	}
}

// checkReport is the JSON form of weir check.
type checkReport struct {
	File      string          `json:"file"`
	Pipelines []checkPipeline `json:"pipelines"`
	Warnings  []string        `json:"warnings"`
	Space     space.Space     `json:"space"`
	Board     boardReport     `json:"board"`
	Storage   space.Storage   `json:"storage"`
}

type checkPipeline struct {
	Name    string `json:"name"`
	Plan    string `json:"plan"`
	Explain string `json:"explain"`
}

// warnings are those of the config, on the board that it was settled for; never nil.
func warnings(cfg *config.Config) []string {
	list := []string{}
	for _, w := range cfg.Warnings {
		list = append(list, w.String())
	}
	if w := cfg.On.Foreign; w != "" {
		list = append(list, w)
	}
	return list
}

func checked(cfg *config.Config, space space.Space, storage space.Storage) checkReport {
	r := checkReport{File: cfg.File, Warnings: warnings(cfg), Space: space, Board: boardReport{cfg.On.Choice, cfg.On.Values}, Storage: storage}
	for _, p := range cfg.Pipelines {
		for _, region := range p.Regions() {
			r.Pipelines = append(r.Pipelines, checkPipeline{
				Name: region.Name.Value, Plan: fmt.Sprintf("%x", region.Graph.Hash), Explain: plan.Explain(&region.Spec, region.Graph),
			})
		}
	}
	if w := space.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r
}

// client is for the socket of --socket, or of the config.
func (o *options) client() (*api.Client, error) {
	if o.socket != "" {
		return api.Dial(o.socket), nil
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, usageError{err}
	}
	return api.Dial(cfg.API.Socket), nil
}

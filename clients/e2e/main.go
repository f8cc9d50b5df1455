// Command e2e runs the specs of Kubernetes' own end-to-end suite that judge an API server. The specs are upstream's, compiled
// from its module as they are; only this main program is ours. It does what upstream's does about flags and leaves out what
// upstream prepares for clusters with nodes: waiting for nodes and system pods, asking for the Service default/kubernetes,
// checking after each spec that all nodes are still ready.
//
// `cargo xtask conformance --e2e` builds it (the go.mod is generated there) and calls it.
package main

import (
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"

	// The specs.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"

	// How the framework prints objects, and the providers of its client configuration.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/testinit"
	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/utils/format"
)

// verdict remembers whether a spec failed; Ginkgo tells it where a `*testing.T` would be told.
type verdict struct{ failed bool }

func (v *verdict) Fail() { v.failed = true }

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()

	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	common.CurrentSuite = common.E2E
	framework.AfterReadingAllFlags(&framework.TestContext)
	// Upstream reads the family off the Service of the API server.
	framework.TestContext.IPFamily = "ipv4"

	logs.InitLogs()
	klog.EnableContextualLogging(true)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var result verdict
	ginkgo.RunSpecs(&result, "Kubernetes e2e suite", suite, reporter)
	logs.FlushLogs()
	if result.failed {
		os.Exit(1)
	}
}

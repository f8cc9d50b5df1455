# Runs one function of Kubernetes' kubectl suites (test/cmd) against a server that runs already. The working directory has links to
# the module's directories, and kubectl in _output/bin. usage: driver.sh FUNCTION PORT
set -o errexit -o nounset -o pipefail
function_name=$1
export SECURE_API_PORT=$2

source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh

# What upstream's own set-up does, less building and starting servers.
kube::util::ensure-temp-dir
kube::util::ensure-gnu-sed
HOME=${KUBE_TEMP}
CONTEXT=test
kubectl config set-credentials test-admin --token admin-token
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
kubectl config use-context "${CONTEXT}"

# The types there are; the suites leave out what needs others where they can.
SUPPORTED_RESOURCES=(clusterroles configmaps csr namespaces roles secrets selfsubjectreviews serviceaccounts
  subjectaccessreviews customresourcedefinitions)
# Ours need not be the build that kubectl is from.
ALLOW_SKEW=true

eval "run_chosen_tests() { ${function_name}; }"
WHAT=chosen
runTests

// Sends one span with a stock exporter: node export.js http|proto|grpc ENDPOINT SERVICE
const [protocol, url, service] = process.argv.slice(2);
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${protocol}`);
const { NodeTracerProvider, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-node");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { SpanKind } = require("@opentelemetry/api");

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": service }),
  spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url }))],
});
const span = provider.getTracer("t").startSpan("from javascript", { kind: SpanKind.CLIENT });
span.setAttributes({ text: "ñ", zero: 0, no: false, half: 0.5, list: ["a", "b"] });
span.addEvent("happened");
setTimeout(() => {
  span.end();
  provider.forceFlush().then(() => provider.shutdown());
}, 2);

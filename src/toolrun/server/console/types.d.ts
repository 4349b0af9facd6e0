// What the HTTP API answers, for tsc. docs/reference/http.md describes it.
export interface Tool {
  name: string;
  description: string;
  source: { kind: "function" | "script" | "mcp" | "catalog" | "builtin" | string; name: string };
  effects: string | null;
  approval: string | null;
  state: "ready" | "held" | "unavailable" | string;
  calls: number;
  errors: number;
  p50_ms: number | null;
}

export type Schema = { [key: string]: any };

export interface ToolDetail extends Tool {
  schema: Schema;
  output_schema?: Schema | null;
  annotations?: { [key: string]: any } | null;
  timeout: number | null;
  views: { [provider: string]: { definition: any; notes: any[] } };
  stats: any;
  problem?: string | null;
}

export interface Server {
  name: string;
  transport: string;
  state: string;
  error: string | null;
  tail: string | null;
  protocol: string | null;
  info: string | null;
  tools: number;
  connections: number;
}

export interface Worker {
  id: string;
  script: string;
  state: string;
  calls: number;
  running: number;
  memory: number | null;
  uptime: number;
  restarts: number;
  sandbox: string;
}

export interface Health {
  version: string;
  uptime: number;
  ready: boolean;
  servers: Server[];
  workers: Worker[];
  queues: { running: number; queued: number; max_concurrency: number; max_queue: number };
  threads: { abandoned: Record<string, number>; lingering: number };
  journal: { path: string | null; problem: string | null };
  problems: string[];
}

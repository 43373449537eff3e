# Stands in for the official zookeeper image where no registry can be reached.
FROM python:3.11-slim
RUN apt-get update -qq \
    && mkdir -p /usr/share/man/man1 /data /datalog \
    && apt-get install -y -qq --no-install-recommends default-jre-headless zookeeper >/dev/null
RUN printf '%s\n' tickTime=2000 dataDir=/data dataLogDir=/datalog clientPort=2181 \
    '4lw.commands.whitelist=srvr' > /etc/zookeeper/conf/zoo.cfg
ENV PATH=/usr/share/zookeeper/bin:$PATH
VOLUME /data /datalog
EXPOSE 2181
CMD ["zkServer.sh", "start-foreground"]
